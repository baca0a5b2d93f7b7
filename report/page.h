/* The parts of a page, in the order in which they are printed. Each writes complete HTML elements, so that other pages
 * can use some of them. Every part is readable without the script. */
#ifndef SF_REPORT_PAGE_H
#define SF_REPORT_PAGE_H

#include <stdio.h>

#include "base/status.h"
#include "semfocus/study.h"

/* page.css, page.js (values under the pointer, switches, copying) and page_files.js (figures as SVG, PNG and PDF).
 * After new elements are put into a page, semfocusEnhance(element) makes them react. */
extern const char sf_page_css[], sf_page_js[], sf_page_files_js[];

/* Everything up to the end of the heading: <header> is open. */
void sf_page_open(FILE *out, const char *title, const char *heading);
/* How many runs on how many tasks, and when; ends the header and begins <main>. */
void sf_page_lead(FILE *out, const sf_study *study);
/* Links to the parts below. */
void sf_page_contents(FILE *out, const sf_study *study);
/* Mechanisms x tasks at one look (report/summary_part.c). */
void sf_page_summary(FILE *out, const sf_study *study);
/* The section of one task, whose groups are from..to-1; its id is task-FROM. */
sf_status sf_page_task(FILE *out, const sf_study *study, sf_store *store, size_t from, size_t to);
/* The settings that all runs of a task share, and which of them are not the task's own recipe. */
sf_status sf_page_settings(FILE *out, const sf_study *study, size_t from, size_t to);
/* The runs that have a name, tags or a note; nothing where none has (report/labels_part.c). */
sf_status sf_page_labels(FILE *out, const sf_study *study, sf_store *store);
/* All of the above and below: what the report says about runs, without the frame of a page around it. */
sf_status sf_page_print_parts(FILE *out, const sf_study *study, sf_store *store);
/* Where the runs were computed. */
sf_status sf_page_environments(FILE *out, const sf_study *study, sf_store *store);
void sf_page_command(FILE *out, const char *command, const char *note /* markup below it */);
/* What the words and numbers mean. */
void sf_page_reading(FILE *out, const sf_study *study);
/* The scripts and the end of the page. */
void sf_page_close(FILE *out);

#endif
