"""The offline world: synthetic videos with known evidence, and the backbones `glance` and `lab` for them."""
