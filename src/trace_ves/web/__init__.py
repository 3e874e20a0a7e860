"""The web pages: what each method of a run folder looked at, and why it stopped. Server, templates, static files."""
