"""Intervals in the formats of other annotation tools: Label Studio, CVAT and ELAN, read and written."""
