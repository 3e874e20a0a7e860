"""Methods x questions on one machine or a cluster: append-only run files, resumable, with what they cost."""
