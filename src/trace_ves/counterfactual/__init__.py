"""The paper's counterfactual check: whether answers change when the evidence they were given is taken away."""
