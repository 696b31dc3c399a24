"""Children: whose they are, where they are observed, and how they are stored."""
