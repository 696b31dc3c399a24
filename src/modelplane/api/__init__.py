"""The kinds: their types, labels, reasons and names; CRDs are generated from them."""
