"""x"""
from flydsl.dialects.definition import DIALECT, OPS, TYPES, irdl_source
from flydsl.mlir import register_dialect_source
register_dialect_source(DIALECT, irdl_source(DIALECT, TYPES, OPS))
