"""Answer questions: one at a time, or a whole bench on threads or Ray; add up the cost; check counterfactuals."""
