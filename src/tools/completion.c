/* bash completion, made from the command table. */
#include <string.h>

#include "base/str.h"
#include "tools/help.h"

/* The helpers that every script has: the words of the command so far, and names from the cluster. */
static const char HEAD[] =
    "# bash completion of kagami: made by \"kagami completion\".\n"
    "_kagami_ask() {\n"
    "    # names from the cluster, quietly: no answer within a second, no names\n"
    "    local server=() i\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        [ \"${COMP_WORDS[i]}\" = --bootstrap-server ] && server=(--bootstrap-server \"$(_kagami_value $((i + 1)))\")\n"
    "    done\n"
    "    \"${COMP_WORDS[0]}\" \"${server[@]}\" --timeout 1s \"$@\" 2>/dev/null\n"
    "}\n"
    "_kagami_value() {\n"
    "    # a value with colons is several words for bash\n"
    "    local i=$1 text=${COMP_WORDS[$1]}\n"
    "    while [ \"${COMP_WORDS[i + 1]}\" = : ]; do text=\"$text:${COMP_WORDS[i + 2]}\"; ((i += 2)); done\n"
    "    echo \"$text\"\n"
    "}\n";

static void options_of(const struct option_def *list, struct out *out)
{
    for (const struct option_def *o = list; o != NULL && o->name != NULL; o++) {
        if (!o->hidden)
            out_printf(out, " --%s", o->name);
    }
}

static void offer(enum completion completion, struct out *out)
{
    if (completion == COMPLETE_FILE)
        out_printf(out, "COMPREPLY=($(compgen -f -- \"$cur\"))");
    else if (completion == COMPLETE_MIRROR)
        out_printf(out, "COMPREPLY=($(compgen -W \"$(_kagami_ask mirror list --names)\" -- \"$cur\"))");
    else if (completion == COMPLETE_TOPIC)
        out_printf(out, "COMPREPLY=($(compgen -W \"$(_kagami_ask topic list --names)\" -- \"$cur\"))");
    else
        out_printf(out, "COMPREPLY=()");
}

static void values_of(const char *words, const struct option_def *list, struct out *out)
{
    for (const struct option_def *o = list; o != NULL && o->name != NULL; o++) {
        if (o->value == NULL || o->hidden)
            continue;
        out_printf(out, "    \"%s --%s\") ", words, o->name);
        if (o->type == OPTION_CHOICE) {
            out_printf(out, "COMPREPLY=($(compgen -W \"");
            for (const char *p = o->choices; *p != '\0'; p++)
                out_char(out, *p == '|' ? ' ' : *p);
            out_printf(out, "\" -- \"$cur\"))");
        } else {
            offer(o->completion, out);
        }
        out_printf(out, "; return ;;\n");
    }
}

static void first_words(struct out *out)
{
    for (const struct command_group *g = COMMAND_GROUPS; g->word != NULL; g++)
        out_printf(out, " %s", g->word);
    for (const struct command *c = COMMANDS; c->words != NULL; c++) {
        if (strchr(c->words, ' ') == NULL)
            out_printf(out, " %s", c->words);
    }
}

static void second_words(const struct command_group *g, struct out *out)
{
    for (const struct command *c = COMMANDS; c->words != NULL; c++) {
        if (command_in_group(c, g))
            out_printf(out, " %s", c->words + strlen(g->word) + 1);
    }
}

static void walk_over_the_line(struct out *out)
{
    out_printf(out, "_kagami() {\n"
                    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= i word\n"
                    "    COMPREPLY=()\n"
                    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                    "        word=${COMP_WORDS[i]}\n"
                    "        case $word in\n");
    out_printf(out, "        ");
    for (const struct option_def *o = GLOBAL_OPTIONS; o->name != NULL; o++) {
        if (o->value != NULL)
            out_printf(out, "%s--%s", o == GLOBAL_OPTIONS ? "" : "|", o->name);
    }
    out_printf(out, ") ((i++)); while [ \"${COMP_WORDS[i + 1]}\" = : ]; do ((i += 2)); done ;;\n"
                    "        -*) ;;\n"
                    "        *)\n"
                    "            case $command in\n"
                    "            '') command=$word ;;\n            ");
    for (const struct command_group *g = COMMAND_GROUPS; g->word != NULL; g++)
        out_printf(out, "%s%s", g == COMMAND_GROUPS ? "" : "|", g->word);
    out_printf(out, ") command=\"$command $word\" ;;\n"
                    "            esac ;;\n"
                    "        esac\n"
                    "    done\n");
}

static void values(struct out *out)
{
    out_printf(out, "    case \"$command $prev\" in\n");
    for (const struct command *c = COMMANDS; c->words != NULL; c++)
        values_of(c->words, c->options, out);
    out_printf(out, "    esac\n    case $prev in\n");
    for (const struct option_def *o = GLOBAL_OPTIONS; o->name != NULL; o++) {
        if (o->value != NULL)
            out_printf(out, "    --%s) return ;;\n", o->name);
    }
    out_printf(out, "    esac\n");
}

void completion_bash(struct out *out)
{
    out_printf(out, "%s", HEAD);
    walk_over_the_line(out);
    values(out);
    out_printf(out, "    if [[ $cur == -* ]]; then\n        local options=\"");
    options_of(GLOBAL_OPTIONS, out);
    out_printf(out, "\"\n        case $command in\n");
    for (const struct command *c = COMMANDS; c->words != NULL; c++) {
        out_printf(out, "        \"%s\") options+=\"", c->words);
        options_of(c->options, out);
        out_printf(out, "\" ;;\n");
    }
    out_printf(out, "        esac\n        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n        return\n    fi\n");
    out_printf(out, "    case $command in\n    '') COMPREPLY=($(compgen -W \"");
    first_words(out);
    out_printf(out, "\" -- \"$cur\")) ;;\n");
    for (const struct command_group *g = COMMAND_GROUPS; g->word != NULL; g++) {
        out_printf(out, "    %s) COMPREPLY=($(compgen -W \"", g->word);
        second_words(g, out);
        out_printf(out, "\" -- \"$cur\")) ;;\n");
    }
    for (const struct command *c = COMMANDS; c->words != NULL; c++) {
        out_printf(out, "    \"%s\") ", c->words);
        offer(c->completion, out);
        out_printf(out, " ;;\n");
    }
    out_printf(out, "    esac\n}\ncomplete -F _kagami kagami\n");
}
