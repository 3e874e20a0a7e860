"""This package inside other people's tools: each sub-package needs the extra of its name."""
