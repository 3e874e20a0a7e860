"""An audit for people: tables, figures, and their renderers for terminals, Markdown, LaTeX and CSV."""
