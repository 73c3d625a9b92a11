"""Exporters trace every operation; pytest would have them write down each step as a log record."""

import logging

logging.getLogger("torch.__trace").disabled = True
