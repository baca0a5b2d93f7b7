# fish completion of semfocus, which says itself what there is: semfocus complete WORD...
function __semfocus_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    for line in ($words[1] complete $words[2..] $word 2>/dev/null)
        switch $line
            case :files :folders
                set -l part (string replace -r '.*[:=,]' '' -- $word)
                set -l kept (string sub -l (math (string length -- $word) - (string length -- $part)) -- $word)
                if test $line = :files
                    printf "$kept%s\n" (__fish_complete_path $part)
                else
                    printf "$kept%s\n" (__fish_complete_directories $part)
                end
            case '*'
                echo $line
        end
    end
end
complete -c semfocus -f -a '(__semfocus_complete)'
