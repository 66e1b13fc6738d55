"""More calls beside the one that was found, and what they tell."""
