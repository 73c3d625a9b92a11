"""Readers of published dataset formats, one file each; `opening` chooses by content."""
