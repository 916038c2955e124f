"""The toolchain: engine, provider, cluster programs and Python packages, each pinned once and built or found here."""
