"""Which mistakes does each tool see in programs of real size, of which most lines are not annotated?"""
