#include <stdbool.h>
#include <string.h>

#include "config_models.h"
#include "text.h"

/* MaxText configs/types.py: ModelName is a closed list; *-tiny are ours. */
static const char *const names[] = {
    "deepseek-custom",
    "deepseek2-16b",
    "deepseek2-236b",
    "deepseek3-671b",
    "deepseek3-671b-2dfsdp",
    "deepseek3-671b-batchsplit",
    "deepseek3-test",
    "deepseek3-tiny",
    "deepseek3.2-671b",
    "deepseek4-284b",
    "deepseek4-tiny",
    "default",
    "gemma-2b",
    "gemma-7b",
    "gpt3-175b",
    "gpt3-22b",
    "gpt3-52k",
    "gpt3-6b",
    "llama2-13b",
    "llama2-70b",
    "llama2-7b",
    "llama2-tiny",
    "llama3-405b",
    "llama3-70b",
    "llama3-8b",
    "llama3.1-405b",
    "llama3.1-70b",
    "llama3.1-8b",
    "llama3.3-70b",
    "mistral-7b",
    "mixtral-8x22b",
    "mixtral-8x7b",
    "qwen3-0.6b",
    "qwen3-1.7b",
    "qwen3-1.7b-base",
    "qwen3-14b",
    "qwen3-14b-base",
    "qwen3-235b-a22b",
    "qwen3-30b-a3b",
    "qwen3-30b-a3b-base",
    "qwen3-32b",
    "qwen3-480b-a35b",
    "qwen3-4b",
    "qwen3-4b-base",
    "qwen3-4b-thinking-2507",
    "qwen3-8b",
    "qwen3-8b-base",
    "qwen3-custom-30b-a3b",
    "qwen3-next-80b-a3b",
    "qwen3-omni-30b-a3b",
    "qwen3-vl-2b",
    "qwen3-vl-30b-a3b",
    "qwen3-vl-4b",
    "qwen3.5-35b-a3b",
    "qwen3.5-397b-a17b",
    "simple-tiny",
    "simple_mlp-tiny",
};

enum { NAMES = sizeof names / sizeof names[0] };

bool ab_model_is_known(const char *name) {
  for (int i = 0; i < NAMES; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

const char *ab_model_nearest(const char *name) {
  struct ab_nearest nearest;
  ab_nearest_start(&nearest, name);
  for (int i = 0; i < NAMES; i++) ab_nearest_offer(&nearest, names[i]);
  return nearest.name;
}
