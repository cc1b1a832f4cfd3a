"""Readers of raw problems in the formats in which the field publishes them: one small function per layout.

Files are recognized by content, never by name: the container by its first bytes, the layout by its columns. A row that
cannot be read is rejected with the field and the reason; a file that cannot be read, or whose layout is unknown and not
mapped by `columns`, is an error.
"""

from ratchet.data_curation.readers.batches import Window as Window
from ratchet.data_curation.readers.problems import columns_of as columns_of
from ratchet.data_curation.readers.problems import has_columns as has_columns
from ratchet.data_curation.readers.problems import open_raw_file as open_raw_file
from ratchet.data_curation.readers.problems import read_files as read_files
from ratchet.data_curation.readers.problems import read_problems as read_problems
from ratchet.data_curation.readers.sources import NotFetched as NotFetched
from ratchet.data_curation.readers.sources import local_files as local_files
from ratchet.data_curation.readers.sources import source_names as source_names
