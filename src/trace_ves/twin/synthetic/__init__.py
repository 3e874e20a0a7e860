"""The VES twin: a small drawn world whose videos and questions have the evidence layout of the paper's benchmark."""
