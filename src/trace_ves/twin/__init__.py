"""The offline world: synthetic films with known evidence, and the backbones `glance` and `lab` that see them."""
