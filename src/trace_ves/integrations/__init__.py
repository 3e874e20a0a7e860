"""Integrations with other tools. inspect_ai and MCP need the extra of their name, lmms-eval needs none."""
