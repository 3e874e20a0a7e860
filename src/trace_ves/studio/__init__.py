"""A page to ask on: pick a video, type a question, watch the search, read its story. For one person, on loopback."""
