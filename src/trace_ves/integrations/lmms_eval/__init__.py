"""A bench as a task of lmms-eval: `python -m trace_ves.integrations.lmms_eval BENCH FOLDER` writes what it includes."""
