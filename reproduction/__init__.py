"""What did it come to? A search for settings, a comparison and a study, kept in small files and shown on a page."""
