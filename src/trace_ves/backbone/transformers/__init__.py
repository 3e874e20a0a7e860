"""`hf:` by transformers: a model on this machine, every bundle of a trajectory answered from one prefill.

Nothing is imported here, so that the parts can be used one by one; `backbone.py` puts them together.
"""
