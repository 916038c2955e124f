module trainstack.dev/pause

go 1.26
