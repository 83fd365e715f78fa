"""The networks that come with the package: their weights, layers and feature rows."""
