/* Answers of a real Kafka, one for each API and version that was asked (kafka_answers.c, made by record_answers.py). */
#ifndef KAGAMI_TESTS_KAFKA_ANSWERS_H
#define KAGAMI_TESTS_KAFKA_ANSWERS_H

#include <stddef.h>
#include <stdint.h>

struct kafka_answer {
    int16_t key, version;
    const char *hex;
};

extern const struct kafka_answer kafka_answers[];
extern const size_t kafka_answers_n;

#endif
