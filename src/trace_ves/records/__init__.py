"""Every record that stands in a file, as the one type that writes it and reads it. Knows `core` alone."""

from trace_ves.records.calls import Call, ObservationLog, Usage
from trace_ves.records.item import Item
from trace_ves.records.prediction import ClipRecord, Prediction
from trace_ves.records.record import Record

__all__ = ["Call", "ClipRecord", "Item", "ObservationLog", "Prediction", "Record", "Usage"]
