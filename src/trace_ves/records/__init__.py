"""File formats. Each record has one type, which reads and writes it. Imports only `core`."""

from trace_ves.records.base import Record
from trace_ves.records.calls import Call, ObservationLog, Usage
from trace_ves.records.item import Item
from trace_ves.records.prediction import ClipRecord, Prediction

__all__ = ["Call", "ClipRecord", "Item", "ObservationLog", "Prediction", "Record", "Usage"]
