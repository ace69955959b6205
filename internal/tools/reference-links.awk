# Leads links of the API reference to the page that has the type, since crd-ref-docs writes one page a group and links within a page only.
# A type that has no entry of its own stays as text. Usage: awk -f reference-links.awk -v out=DIR PAGE... PAGE... (all pages twice).
FNR == 1 { files++; half = (ARGC - 1) / 2; page = FILENAME; sub(/.*\//, "", page); if (files > half) printf "" > (out "/" page) }
files <= half {
	if ($0 ~ /^#+ /) { anchor = tolower($2); gsub(/[^a-z0-9_-]/, "", anchor); has[page, anchor] = 1; if (!(anchor in home)) home[anchor] = page }
	next
}
{
	sub(/\[struct\{.*\}\]\(#struct.*\)_$/, "struct_")
	line = ""
	while (match($0, /\[[^][]*\]\(#[^)]*\)/)) {
		found = substr($0, RSTART, RLENGTH)
		text = found; sub(/\]\(#.*/, "", text); text = substr(text, 2)
		anchor = found; sub(/.*\]\(#/, "", anchor); sub(/\)$/, "", anchor)
		if (!((page, anchor) in has)) found = anchor in home ? "[" text "](" home[anchor] "#" anchor ")" : text
		line = line substr($0, 1, RSTART - 1) found
		$0 = substr($0, RSTART + RLENGTH)
	}
	print line $0 > (out "/" page)
}
