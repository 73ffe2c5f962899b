"""Worker processes: how they are started, watched and ended, and what a run reports."""
