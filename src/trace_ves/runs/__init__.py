"""Questions answered: one at a time, or a whole bench on threads or Ray; cost, counterfactual check."""
