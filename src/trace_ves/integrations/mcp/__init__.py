"""Videos for assistants: a server of the Model Context Protocol, `trace-ves mcp FOLDER`."""
