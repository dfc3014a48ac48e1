#!/bin/sh
# Has bash, zsh and fish, as Debian sets them up, complete a command line of
# rdmactl's from the files that the package has installed.
set -eu

# check SHELL OFFERED WORD wants what a shell offers to have a word.
check() {
	echo "$2" | tr -s ' \t' '\n' | grep -qxF -- "$3" || { printf '%s: no %s in\n%s\n' "$1" "$3" "$2" >&2; exit 1; }
	echo "$1 completes $3"
}

check bash "$(bash -c '
	. /usr/share/bash-completion/bash_completion
	_completion_loader rdmactl || [ $? = 124 ]
	compopt() { :; } # bash has it while a person completes
	COMP_WORDS=(rdmactl settings se) COMP_CWORD=2 COMP_LINE="rdmactl settings se" COMP_POINT=19 COMP_TYPE=9
	$(complete -p rdmactl | sed "s/.*-F \([^ ]*\) .*/\1/") rdmactl se settings
	echo "${COMPREPLY[@]}"')" set

check fish "$(fish -c 'complete -C "rdmactl settings se"' | cut -f1)" set

# zsh completes on a terminal alone: one is made for it, and TAB typed.
check zsh "$(zsh -f -c '
	zmodload zsh/zpty
	zpty shell zsh -f -i
	zpty -w shell "PS1= TERM=dumb; autoload -U compinit; compinit -u -D; echo rea\"dy\""
	zpty -r -m shell line "*ready*"
	zpty -n -w shell $'"'rdmactl settings expl\t'"'
	zpty -r -m shell line "*explain*"
	echo $line
	zpty -d shell' | tr -d '\r\007')" explain
