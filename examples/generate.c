/* Text from a bundle, in plain C99:
 *     generate BUNDLE PROMPT [TOKENS] */
#include <anemone/anemone.h>
#include <stdio.h>
#include <stdlib.h>

static int show(void* user, const char* piece) {
  (void)user;
  fputs(piece, stdout);
  fflush(stdout);
  return 0; /* go on */
}

static int fail(void) {
  fprintf(stderr, "error: %s\n", anemone_last_error());
  return 2;
}

int main(int argc, char** argv) {
  anemone_bundle* bundle = NULL;
  anemone_session* session = NULL;
  anemone_generate_options options;
  anemone_result result;
  int status = 0;
  if (argc < 3) {
    fprintf(stderr, "usage: generate BUNDLE PROMPT [TOKENS]\n");
    return 2;
  }
  anemone_generate_options_init(&options);
  if (argc > 3) options.max_new = strtol(argv[3], NULL, 10);
  anemone_result_init(&result);
  if (anemone_bundle_open(argv[1], NULL, &bundle) || anemone_session_new(bundle, &session) ||
      anemone_generate_text(session, argv[2], &options, show, NULL, &result))
    status = fail();
  else
    printf("\n[%ld tokens, ended by: %s]\n", (long)result.new_tokens, result.stopped);
  anemone_session_free(session);
  anemone_bundle_close(bundle);
  return status;
}
