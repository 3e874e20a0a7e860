"""Building a bench in five stages: proposal, visual verification, leave-one-out, shortcut probe, adjudication."""
