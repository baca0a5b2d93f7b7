# bash completion of semfocus, which says itself what there is: semfocus complete WORD...
_semfocus() {
    local line=${COMP_LINE:0:COMP_POINT} words=() word candidate kept i
    # bash splits words at : and = as well; what no blank separates is one word of ours.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i > 0)) && [[ $line != [[:blank:]]* ]]; then words[-1]+=$word; else words+=("$word"); fi
        line=${line#"${line%%[![:blank:]]*}"}
        ((i == COMP_CWORD)) && words[-1]=${words[-1]%"$word"}$line
        line=${line#"$word"}
    done
    for i in "${!words[@]}"; do
        words[i]=${words[i]//[\"\'\\]/}
        [[ ${words[i]} == "~/"* ]] && words[i]=$HOME/${words[i]#"~/"}
    done
    word=${words[-1]}
    kept=
    [[ $COMP_WORDBREAKS == *:* ]] && kept=${word%"${word##*[:=]}"}
    COMPREPLY=()
    while IFS=$'\t' read -r candidate _; do
        case $candidate in
        :files | :folders)
            compopt -o filenames
            local option=-f part=${word##*[:=,]}
            [[ $candidate == :folders ]] && option=-d
            while IFS= read -r candidate; do COMPREPLY+=("${word:${#kept}:${#word}-${#kept}-${#part}}$candidate"); done \
                < <(compgen "$option" -- "$part")
            ;;
        *)
            [[ $candidate == *[:,=] ]] && compopt -o nospace
            COMPREPLY+=("${candidate#"$kept"}")
            ;;
        esac
    done < <("${words[0]}" complete "${words[@]:1}" 2>/dev/null)
}
complete -F _semfocus semfocus
