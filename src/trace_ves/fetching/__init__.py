"""A video by its address: fetched into a cache, checked, and from then on a file like any other.

Only an address that a person gives is ever fetched: nothing in a bench, a run file or a saved answer leads here.
"""

from trace_ves.fetching.addresses import is_address
from trace_ves.fetching.fetch import Fetched, fetch_video
from trace_ves.fetching.rules import FetchRules

__all__ = ["FetchRules", "Fetched", "fetch_video", "is_address"]
