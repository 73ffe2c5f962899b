"""Downloaded files: stored under the hash of their content, on disk or in an object store."""
