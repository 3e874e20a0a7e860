"""The VES twin: a synthetic world whose videos and questions have the evidence layout of the paper's benchmark."""
