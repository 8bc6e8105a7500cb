# SPDX-License-Identifier: GPL-2.0-or-later
# bash completion for holdfast: verbs, workspace names, options from `holdfast ws set`.
_holdfast() {
	local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]}
	case $COMP_CWORD:$verb in
	1:*)
		COMPREPLY=($(compgen -W "ws run exec shell cp policy timeline alerts quarantine release evidence doctor daemon version" -- "$word"))
		return ;;
	2:ws)
		COMPREPLY=($(compgen -W "create set start stop list show reset delete" -- "$word"))
		return ;;
	2:policy)
		COMPREPLY=($(compgen -W "check show explain diff history rollback apply eval prove learn" -- "$word"))
		return ;;
	2:evidence)
		COMPREPLY=($(compgen -W "export" -- "$word"))
		return ;;
	2:daemon)
		COMPREPLY=($(compgen -W "status stop" -- "$word"))
		return ;;
	esac
	if [[ $word == --* && $verb == ws ]]; then
		COMPREPLY=($(compgen -W "$(holdfast ws set 2>/dev/null | grep -o -- '--[a-z_]*')" -- "$word"))
		return
	fi
	COMPREPLY=($(compgen -W "$(holdfast ws list 2>/dev/null | cut -d' ' -f1)" -f -- "$word"))
}
complete -F _holdfast holdfast
