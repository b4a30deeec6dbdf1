"""Loaders of the data sets that the reports are about; none of them downloads anything."""
