"""The pretrained networks that are part of the package: their weights, layers and feature rows."""
