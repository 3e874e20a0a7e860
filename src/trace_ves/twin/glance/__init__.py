"""`glance`, the embedded backbone: a small detector for the twin and fixed rules over its detections."""
