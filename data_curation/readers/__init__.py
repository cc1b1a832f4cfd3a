"""Readers of raw problems in the formats in which the field publishes them: one small function per layout.

Files are recognized by content, never by name: the container by its first bytes, the layout by its columns. A row that
cannot be read is rejected with the field and the reason; a file that cannot be read, or whose layout is unknown and not
mapped by `columns`, is an error.
"""
