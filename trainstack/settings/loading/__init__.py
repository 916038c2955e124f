"""Reading YAML files with positions, and merging them."""
