from __future__ import annotations
def function_hook(fullname, forms): return None
def method_hook(fullname, forms): return None
def attribute_hook(fullname, forms): return None
