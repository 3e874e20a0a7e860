"""What runs cost: calls, frames, tokens, seconds and money, by stage and per question."""
