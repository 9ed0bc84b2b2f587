"""What does the linter say before and after commits of public projects that fix a shape, an axis or a sharding?"""
