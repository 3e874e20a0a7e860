"""The methods that TRACE is compared with, each a callable `(question, observer) -> Answer`."""
