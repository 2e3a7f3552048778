"""Triangle discovery: name a triangle of a hidden graph."""
