"""A release: a bench and its runs, packed so that anyone can replay the audit, and the check of such a pack."""
